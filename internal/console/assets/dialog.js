import {announce, byId, problem, text} from './dom.js';

const dialog = byId('confirm');
const yes = byId('confirm-yes');
const no = byId('confirm-no');
let run, before;

// confirm asks before something is done. The dialog keeps the focus, and gives it back; it stays, with
// the error, when what is to be done fails.
export function confirm(question) {
  text(byId('confirm-title'), question.title);
  text(byId('confirm-text'), question.said);
  text(byId('confirm-hint'), question.hint ?? '');
  text(yes, question.yes);
  problem(byId('confirm-problem'), '');
  yes.disabled = false;
  run = question.run;
  before = document.activeElement;
  dialog.showModal();
  no.focus();
}

yes.addEventListener('click', async () => {
  const mine = run;
  yes.disabled = true;
  let failed;
  try {
    await mine();
  } catch (error) {
    failed = error;
  }
  if (mine !== run) { // it was left
    if (failed) announce(failed.message);
    return;
  }
  yes.disabled = false;
  problem(byId('confirm-problem'), failed);
  if (failed) yes.focus();
  else dialog.close();
});

dialog.addEventListener('cancel', event => { // what has begun is waited for
  if (yes.disabled) event.preventDefault();
});
no.addEventListener('click', () => dialog.close());

// The browser says so a moment after it has closed it; meanwhile something else may be asked.
dialog.addEventListener('close', () => {
  if (dialog.open) return;
  run = undefined;
  before?.focus();
});

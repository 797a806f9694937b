import {byId, problem, text} from './dom.js';

// confirm asks before something is done. The dialog keeps the focus, and gives it back; it stays, with
// the error, when run fails.
export function confirm({title, said, hint, yes, run}) {
  const dialog = byId('confirm');
  const button = byId('confirm-yes');
  text(byId('confirm-title'), title);
  text(byId('confirm-text'), said);
  text(byId('confirm-hint'), hint ?? '');
  text(button, yes);
  problem(byId('confirm-problem'), '');
  button.disabled = false;
  const before = document.activeElement;
  const close = () => dialog.close();
  const doIt = async () => {
    button.disabled = true;
    try {
      await run();
      dialog.close();
    } catch (error) {
      problem(byId('confirm-problem'), error);
      button.disabled = false;
      button.focus();
    }
  };
  button.addEventListener('click', doIt);
  byId('confirm-no').addEventListener('click', close);
  dialog.addEventListener('close', () => {
    button.removeEventListener('click', doIt);
    byId('confirm-no').removeEventListener('click', close);
    before?.focus();
  }, {once: true});
  dialog.showModal();
  byId('confirm-no').focus();
}

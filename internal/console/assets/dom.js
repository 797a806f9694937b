// Elements are made here, and text gets into them as text only: what a client, an upstream or a colleague
// wrote is never markup.

// hidden are characters that would hide or reorder what stands around them.
const hidden = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// show makes them visible.
export const show = text => String(text ?? '').replace(hidden, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

// h makes an element. Children are elements or texts; properties that are functions listen.
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// s makes an SVG element.
export function s(tag, properties, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter(child => child !== undefined && child !== null && child !== false));
  return element;
}

// name isolates what others wrote from the direction of the text around it.
export const name = (text, properties) => h('bdi', properties, show(text));

// text changes an element's text, and leaves it alone where it says that already.
export function text(element, said) {
  const next = show(said);
  if (element.textContent !== next) element.textContent = next;
}

export const byId = id => document.getElementById(id);

// announce tells those who do not see the page.
export function announce(said) {
  byId('announce').textContent = show(said);
}

// problem shows an error in words, or takes it away.
export function problem(element, error) {
  element.hidden = !error;
  text(element, error ? error.message ?? error : '');
}

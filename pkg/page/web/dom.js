// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// make builds an element. Texts become text nodes, never markup: names come from
// whoever may create a pod.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// plural is "1 pod", "2 pods".
export function plural(n, noun) {
  return n === 1 ? `1 ${noun}` : `${n} ${noun}s`;
}

// setText changes a text only if it is another, so that screen readers are told
// of changes alone.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

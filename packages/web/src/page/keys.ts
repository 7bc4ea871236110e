// Single-key shortcuts. They work only outside of fields, can be switched off, and none of them
// approves, stops or kills.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

interface KeyAct {
  readonly says: string;
  run(): void;
}
/** Actions by key, or by two keys in sequence: `g t`. */
export type KeyActs = Readonly<Record<string, KeyAct>>;

const OFF = 'kernmantle-keys';
/** Time limit for the second key of a pair. */
const PATIENCE_MS = 1200;

const layers: KeyActs[] = [];

/** Active keys; those of the view come before those of the page. */
export const keysNow = (): readonly KeyActs[] => layers.toReversed();

/** Registers the keys of a view while it is mounted. Keys of the page (`ofPage`) work everywhere and come last. */
export function useKeys(acts: KeyActs, ofPage = false): void {
  useEffect(() => {
    if (ofPage) layers.unshift(acts);
    else layers.push(acts);
    return () => void layers.splice(layers.indexOf(acts), 1);
  });
}

export const areKeysOn = signal(localStorage.getItem(OFF) !== 'off');
export function switchKeys(isOn: boolean): void {
  areKeysOn.value = isOn;
  if (isOn) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, 'off');
}

/** True if the key goes to a field or a dialog, where it is text or a control of its own. */
const isField = (target: EventTarget | null): boolean =>
  document.querySelector('dialog[open]') !== null ||
  (target instanceof HTMLElement &&
    (target.isContentEditable || target.closest('input, textarea, select, dialog[open]') !== null));

const ownKeys = new Set(['Enter', ' ', 'ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight']);
const isOwn = (event: KeyboardEvent): boolean =>
  event.defaultPrevented ||
  (ownKeys.has(event.key) &&
    event.target instanceof HTMLElement &&
    event.target.closest('a, button, summary') !== null);

/** Listens to keys. Returns the function that stops it. */
export function listenToKeys(): () => void {
  let before = { key: '', at: 0 };
  const onKey = (event: KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    if (!areKeysOn.value || isField(event.target) || isOwn(event)) return;
    const pair = event.timeStamp - before.at < PATIENCE_MS ? `${before.key} ${event.key}` : '';
    before = { key: event.key, at: event.timeStamp };
    for (const name of [pair, event.key]) {
      const act = keysNow().find((acts) => Object.hasOwn(acts, name))?.[name];
      if (!act) continue;
      event.preventDefault();
      before = { key: '', at: 0 };
      act.run();
      return;
    }
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

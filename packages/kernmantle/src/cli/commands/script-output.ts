// Chooses the stream and the text of an effect of a script.
import type { ScriptEffect } from '@kernmantle/script';

type Printed = (text: string) => { stream: 'out' | 'err'; text: string };
const asLine: Printed = (text) => ({ stream: 'out', text: `${text}\n` });
const PRINTED: Readonly<Partial<Record<ScriptEffect['kind'], Printed>>> = {
  text: (text) => ({ stream: 'out', text }),
  show: asLine,
  run: asLine,
  log: (text) => ({ stream: 'err', text: `${text}\n` }),
  stderr: (text) => ({ stream: 'err', text: text.endsWith('\n') ? text : `${text}\n` }),
  warning: (text) => ({ stream: 'err', text: `warning: ${text}\n` }),
};

/** Returns the stream and the text of an effect. Undefined if the effect is shown elsewhere. */
export const printed = ({ kind, text, isShown }: ScriptEffect) =>
  isShown ? undefined : PRINTED[kind]?.(text);

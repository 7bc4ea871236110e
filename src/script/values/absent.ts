// Undefined as a value: no data, but marks like any other (a condition chose that there is nothing).
import { type Descriptor, EMPTY, makeValue, type Value } from '../../flow/index.ts';

const NOTHING = makeValue(null, { origin: { absent: true } });

/** No value. */
export const absent = (descriptor: Descriptor = EMPTY): Value =>
  descriptor === EMPTY ? NOTHING : makeValue(null, { descriptor, origin: { absent: true } });

export const isAbsent = ({ data, meta }: Value): boolean =>
  data === null && meta.origin['absent'] === true;

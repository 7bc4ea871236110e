// Single keys, for people who keep their hands where they are. They work outside of fields only, can be
// switched off, and none of them approves, stops or kills.
import { useEffect } from 'preact/hooks';

export interface KeyAct {
  /** What `?` says about it. */
  readonly says: string;
  run(): void;
}
/** By key, or by two keys one after the other: `g t`. */
export type KeyActs = Readonly<Record<string, KeyAct>>;

const layers: KeyActs[] = [];

/** All that count now; those of the view come before those of the page. */
export const keysNow = (): readonly KeyActs[] => layers.toReversed();

/** The keys of a view, as long as it is shown. */
export function useKeys(acts: KeyActs): void {
  useEffect(() => {
    layers.push(acts);
    return () => void layers.splice(layers.indexOf(acts), 1);
  });
}

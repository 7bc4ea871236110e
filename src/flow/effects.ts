// Effects of a body: straight through when nobody can object any more, held back otherwise.
import type { Frame } from './frame.ts';
import type { Effect } from './ports.ts';

const MAX_HELD = 100_000;

export interface EffectBuffer {
  /** Undefined: effects are not held and go where those of the surrounding operation go. */
  readonly emit: ((effect: Effect) => void) | undefined;
  flush(): void;
  drop(): void;
  /** More was emitted than can be held; the operation must fail. */
  hasOverflowed(): boolean;
}

export function emitTo(frame: Frame, effect: Effect): void {
  if (frame.emit) frame.emit(effect);
  else frame.ports.effects?.(effect);
}

const PASS: EffectBuffer = Object.freeze({
  emit: undefined,
  flush() {},
  drop() {},
  hasOverflowed: () => false,
});

/** `outer` is the frame the operation was started in. */
export function createEffectBuffer(outer: Frame, isHeld: boolean): EffectBuffer {
  if (!isHeld) return PASS;
  let held: Effect[] = [];
  let isOpen = true;
  let overflowed = false;
  const end = () => {
    isOpen = false;
    held = [];
  };
  return {
    emit(effect) {
      if (!isOpen) return;
      if (held.length < MAX_HELD) held.push(effect);
      else overflowed = true;
    },
    flush() {
      const ready = held;
      end();
      for (const effect of ready) emitTo(outer, effect);
    },
    drop: end,
    hasOverflowed: () => overflowed,
  };
}

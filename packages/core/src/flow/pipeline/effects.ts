// Effects of a body: straight through when nobody can object any more, held back otherwise.
import type { Effect, Frame } from '../frame.ts';

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

/** Nobody can object: effects go straight through. */
export const NO_BUFFER: EffectBuffer = Object.freeze({
  emit: undefined,
  flush() {},
  drop() {},
  hasOverflowed: () => false,
});

/** Made for every operation an after-guard might concern, so it costs nothing until it is used. */
class HeldEffects implements EffectBuffer {
  readonly #outer: Frame;
  #held: Effect[] | undefined;
  #isOpen = true;
  #hasOverflowed = false;

  /** `outer` is the frame the operation was started in. */
  constructor(outer: Frame) {
    this.#outer = outer;
  }

  emit = (effect: Effect): void => {
    if (!this.#isOpen) return;
    this.#held ??= [];
    if (this.#held.length < MAX_HELD) this.#held.push(effect);
    else this.#hasOverflowed = true;
  };

  flush(): void {
    const ready = this.#held;
    this.drop();
    if (ready) for (const effect of ready) emitTo(this.#outer, effect);
  }

  drop(): void {
    this.#isOpen = false;
    this.#held = undefined;
  }

  hasOverflowed(): boolean {
    return this.#hasOverflowed;
  }
}

export const createEffectBuffer = (outer: Frame): EffectBuffer => new HeldEffects(outer);

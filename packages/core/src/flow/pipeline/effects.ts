// Passes on the effects of a body: at once if no guard can object, and from a buffer otherwise.
import type { Effect, Frame } from '../frame.ts';

const MAX_BUFFERED = 100_000;

export interface EffectBuffer {
  /** Undefined: effects are not buffered and go to the destination of the surrounding operation. */
  readonly emit: ((effect: Effect) => void) | undefined;
  flush(): void;
  drop(): void;
  /** True if the buffer is full. The operation must fail. */
  hasOverflowed(): boolean;
}

export function emitTo(frame: Frame, effect: Effect): void {
  if (frame.emit) frame.emit(effect);
  else frame.ports.effects?.(effect);
}

/** The buffer of an operation without a possible objection, which passes effects on at once. */
export const NO_BUFFER: EffectBuffer = Object.freeze({
  emit: undefined,
  flush() {},
  drop() {},
  hasOverflowed: () => false,
});

/**
 * A buffer that allocates nothing until it is used, because every operation with a possible objection
 * creates one.
 */
class LazyEffectBuffer implements EffectBuffer {
  readonly #outer: Frame;
  #held: Effect[] | undefined;
  #isOpen = true;
  #hasOverflowed = false;

  /** `outer` is the frame in which the operation was started. */
  constructor(outer: Frame) {
    this.#outer = outer;
  }

  emit = (effect: Effect): void => {
    if (!this.#isOpen) return;
    this.#held ??= [];
    if (this.#held.length < MAX_BUFFERED) this.#held.push(effect);
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

export const createEffectBuffer = (outer: Frame): EffectBuffer => new LazyEffectBuffer(outer);

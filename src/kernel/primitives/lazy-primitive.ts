// When primitives and sinks are made: their code is loaded, and what they stand on looked up, when a
// chain first ends in one. Most processes need one or two; a start should not pay for the others.
import type { Primitive } from '../primitive.ts';
import type { SinkFactory } from '../sink.ts';

/** What is made when it is first needed, once; after a making that failed the next one tries again. */
function createOnce<T>(make: () => Promise<T>) {
  let made: Promise<T> | undefined;
  return {
    get: (): Promise<T> =>
      (made ??= make().catch((error: unknown) => {
        made = undefined;
        throw error;
      })),
    made: () => made,
  };
}

/** One that stands on what a policy says now: made anew for every call, which must be cheap. */
export const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/**
 * A primitive whose making costs something (code, a probe). A making that fails (too many files are
 * open, say) is that call's failure.
 */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  const { get, made } = createOnce(make);
  let there: Primitive | undefined;
  return {
    ...freshPrimitive(name, get),
    run(call) {
      if (there) return there.run(call);
      return get().then((one) => (there = one).run(call));
    },
    loaded: get,
    close: () =>
      void made()?.then(
        (one) => one.close?.(),
        () => {},
      ),
  };
}

export function lazySink(make: () => Promise<SinkFactory>): SinkFactory {
  const { get } = createOnce(make);
  return async (destination, context) => await (await get())(destination, context);
}

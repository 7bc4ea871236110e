import type { Primitive } from './primitive.ts';

/** One that stands on what a policy says now: made anew for every call, which must be cheap. */
export const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/**
 * A primitive whose making costs something (code, a probe): made when it is first needed, once. A making
 * that fails (too many files are open, say) is that call's failure; the next call tries again.
 */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  let made: Promise<Primitive> | undefined;
  const primitive = async (): Promise<Primitive> => {
    const making = (made ??= make());
    try {
      return await making;
    } catch (error) {
      if (made === making) made = undefined;
      throw error;
    }
  };
  return {
    name,
    run: async (call) => (await primitive()).run(call),
    plan: async (call) => (await primitive()).plan?.(call) ?? { primitive: name },
    close: () =>
      void made?.then(
        (there) => there.close?.(),
        () => {},
      ),
  };
}

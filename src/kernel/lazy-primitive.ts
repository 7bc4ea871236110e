import type { Primitive } from './primitive.ts';

/** One that stands on what a policy says now: made anew for every call, which must be cheap. */
export const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/** A primitive whose making costs something (code, a probe): made when it is first needed, once. */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  let made: Promise<Primitive> | undefined;
  const primitive = (): Promise<Primitive> => {
    made ??= make();
    return made;
  };
  return {
    name,
    run: async (call) => (await primitive()).run(call),
    plan: async (call) => (await primitive()).plan?.(call) ?? { primitive: name },
    close: () => void made?.then((there) => there.close?.()),
  };
}

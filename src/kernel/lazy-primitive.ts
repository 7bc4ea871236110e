import type { Primitive } from './primitive.ts';

/** A primitive whose making costs something (a probe): made at its first call, once. */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  let made: Promise<Primitive> | undefined;
  return {
    name,
    async run(call) {
      made ??= make();
      return await (await made).run(call);
    },
  };
}

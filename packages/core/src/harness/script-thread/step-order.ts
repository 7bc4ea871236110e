// The order of a script's steps. Branches of a script run at the same time; steps of its thread do not,
// except those that only read.
import { AsyncLocalStorage } from 'node:async_hooks';

type Order = <T>(isShared: boolean, work: () => Promise<T>) => Promise<T>;

function createQueue(): Order {
  let last: Promise<unknown> = Promise.resolve();
  let readers: Promise<unknown> = Promise.resolve();
  return async (isShared, work) => {
    const ahead = isShared ? last : Promise.all([last, readers]);
    const mine = ahead.then(work);
    const ended = mine.catch(() => undefined);
    if (isShared) readers = Promise.all([readers, ended]);
    else last = ended;
    return await mine;
  };
}

/**
 * Work that is not shared waits for all before it, and all after it wait for that. Work that begins inside other
 * work, such as a guard's own call, is part of it: it waits only for what began there.
 */
export function createOrder(): Order {
  const inside = new AsyncLocalStorage<Order>();
  const outside = createQueue();
  return (isShared, work) => {
    const queue = inside.getStore() ?? outside;
    return queue(isShared, () => inside.run(createQueue(), work));
  };
}

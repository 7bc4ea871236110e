// Orders the steps of a script. Branches of a script run at the same time. Steps of its thread do not, except those
// that only read.
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
 * Returns an order for work. Work that is not shared waits for all earlier work, and all later work waits for it.
 * Work that begins inside other work, such as a guard's own call, waits only for work that began there.
 */
export function createOrder(): Order {
  const inside = new AsyncLocalStorage<Order>();
  const outside = createQueue();
  return (isShared, work) => {
    const queue = inside.getStore() ?? outside;
    return queue(isShared, () => inside.run(createQueue(), work));
  };
}

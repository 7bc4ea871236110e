// Branches of a script run at the same time; steps of its thread do not, except those that only read.

export type InOrder = <T>(isShared: boolean, work: () => Promise<T>) => Promise<T>;

/** Work that is not shared waits for all before it, and all after it wait for that. */
export function createOrder(): InOrder {
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

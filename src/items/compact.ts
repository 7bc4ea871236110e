type Loose<T> = { [K in keyof T]: T[K] | undefined };

/** The same object without the fields that are undefined: absent and undefined are one thing here. */
export function compact<T extends object>(value: Loose<T>): T {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => field !== undefined),
  ) as unknown as T;
}

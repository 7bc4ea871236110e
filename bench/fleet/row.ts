// Defines one figure of the fleet and its target.
export interface FleetRow {
  name: string;
  value: number;
  unit: string;
  /** Target as text. Empty: the figure has no target. */
  target: string;
  ok: boolean;
  /** Reference measurement and its conditions. Absent: none. */
  beside?: string;
}

export interface FleetRun {
  /** Address of the database. Every row creates its own schema in it. */
  readonly url: string;
  readonly port: number;
  /** Returns the CPU of the database so far, in milliseconds. */
  databaseMillis(): number;
  say(text: string): void;
}

export const atMost = (name: string, value: number, most: number, unit: string): FleetRow => ({
  name,
  value,
  unit,
  target: `at most ${most} ${unit}`,
  ok: value <= most,
});

export const told = (name: string, value: number, unit: string, beside?: string): FleetRow => ({
  name,
  value,
  unit,
  target: '',
  ok: true,
  ...(beside !== undefined && { beside }),
});

// One figure of the fleet, and what it is meant to reach.
export interface FleetRow {
  name: string;
  value: number;
  unit: string;
  /** In words; empty where the figure is only told. */
  target: string;
  ok: boolean;
  /** What it was measured beside, and how. */
  beside?: string;
}

export interface FleetRun {
  /** Of the database; every row makes a schema of its own in it. */
  readonly url: string;
  readonly port: number;
  /** CPU of the database so far, in milliseconds. */
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

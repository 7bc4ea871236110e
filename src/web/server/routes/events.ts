import type { AddRoutes } from '../parts.ts';

export const addEventsRoutes: AddRoutes = (_api, _parts) => {};

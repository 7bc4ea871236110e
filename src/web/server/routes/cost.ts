import type { AddRoutes } from '../parts.ts';

export const addCostRoutes: AddRoutes = (_api, _parts) => {};

import type { AddRoutes } from '../parts.ts';

export const addSteerRoutes: AddRoutes = (_api, _parts) => {};

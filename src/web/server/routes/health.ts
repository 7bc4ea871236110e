import type { AddRoutes } from '../parts.ts';

export const addHealthRoutes: AddRoutes = (_api, _parts) => {};

import type { AddRoutes } from '../parts.ts';

export const addItemsRoutes: AddRoutes = (_api, _parts) => {};

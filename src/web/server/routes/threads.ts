import type { AddRoutes } from '../parts.ts';

export const addThreadsRoutes: AddRoutes = (_api, _parts) => {};

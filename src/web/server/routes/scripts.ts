import type { AddRoutes } from '../parts.ts';

export const addScriptsRoutes: AddRoutes = (_api, _parts) => {};

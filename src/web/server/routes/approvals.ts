import type { AddRoutes } from '../parts.ts';

export const addApprovalsRoutes: AddRoutes = (_api, _parts) => {};

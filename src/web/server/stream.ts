// Stands here until the stream does.
import type { AddRoutes } from './parts.ts';

export const addStream: AddRoutes = (_api, _parts) => {};

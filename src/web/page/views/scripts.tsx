import { EmptyState } from '../parts/states.tsx';

export function ScriptsPage() {
  return <EmptyState title="scripts" />;
}

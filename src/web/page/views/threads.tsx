import { EmptyState } from '../parts/states.tsx';

export function ThreadsView() {
  return <EmptyState title="threads" />;
}

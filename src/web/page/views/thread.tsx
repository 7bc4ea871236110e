import { EmptyState } from '../parts/states.tsx';

export function ThreadPage() {
  return <EmptyState title="thread" />;
}

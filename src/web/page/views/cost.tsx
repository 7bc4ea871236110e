import { EmptyState } from '../parts/states.tsx';

export function CostPage() {
  return <EmptyState title="cost" />;
}

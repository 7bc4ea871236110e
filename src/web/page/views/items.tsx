import { EmptyState } from '../parts/states.tsx';

export function ItemsPage() {
  return <EmptyState title="items" />;
}

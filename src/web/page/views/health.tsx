import { EmptyState } from '../parts/states.tsx';

export function HealthPage() {
  return <EmptyState title="health" />;
}

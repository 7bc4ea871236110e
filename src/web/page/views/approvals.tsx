import { EmptyState } from '../parts/states.tsx';

export function ApprovalsPage() {
  return <EmptyState title="approvals" />;
}

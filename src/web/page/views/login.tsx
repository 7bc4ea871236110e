import { EmptyState } from '../parts/states.tsx';

export function LoginPage() {
  return <EmptyState title="login" />;
}

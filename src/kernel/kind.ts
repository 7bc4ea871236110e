import type { Outcome } from '../base/index.ts';
import type { Value } from '../flow/index.ts';
import type { Authority, Caller, ExecuteRequest } from './call.ts';

/**
 * One row of the table behind `execute`. The runtime can mount more (`thread`): the verbs only look
 * a kind up and hand over.
 */
export interface Kind {
  name: string;
  /** What `action` may be; the first is used when none is given. */
  actions: readonly string[];
  execute(request: ExecuteRequest, caller: Caller, authority: Authority): Promise<Outcome<Value>>;
}

// `@input` of a guard on an operation: the list of its inputs, and questions about all of them at once.

import type { Argument } from '../flow/index.ts';
import { makeContainer, type Value } from '../flow/index.ts';
import { withOrigin } from './value-kinds.ts';

/** A list that also answers to `.any`, `.all`, `.none`, `.totalTokens()` and `.maxTokens()`. */
export const guardInputs = (inputs: readonly Argument[]): Value =>
  withOrigin(makeContainer(inputs.map(({ value }) => value)), { inputs: true });

export const isGuardInputs = ({ meta }: Value): boolean => meta.origin['inputs'] === true;

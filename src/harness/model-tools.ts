import { FOUR_TOOLS } from '../kernel/index.ts';
import type { ToolDefinition } from '../llm/index.ts';

/** Exactly the four, as a model is told about them. */
export const MODEL_TOOLS: readonly ToolDefinition[] = FOUR_TOOLS.map(
  ({ name, description, input }) => ({ name, description, input_schema: input }),
);
/** What they add to every request. */
export const MODEL_TOOLS_BYTES = JSON.stringify(MODEL_TOOLS).length;

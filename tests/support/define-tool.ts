// Gives a tool of a test the types of its parameters.
import type { ProgramTool, TypedTool } from '@kernmantle/core/kernel';

export const defineTool = <
  const P extends NonNullable<ProgramTool['parameters']> = Record<string, never>,
>(
  tool: TypedTool<P>,
): ProgramTool => tool as unknown as ProgramTool;

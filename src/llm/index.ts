export type {
  BadArguments,
  Block,
  Broken,
  Message,
  ModelReply,
  Protocol,
  Stop,
  TextBlock,
  ThinkingBlock,
  ToolCallBlock,
  ToolResultBlock,
} from './message.ts';
export { type ResolvedModel, resolveModel } from './models.ts';
export { formatMoney, parseMoney } from './money.ts';
export { costOf, type Price, worstCost } from './price.ts';
export {
  createPrices,
  type PriceLayer,
  type PricePorts,
  type Prices,
  uncountedPrices,
} from './prices.ts';
export { providerFault } from './provider-fault.ts';
export { readReply } from './read-reply.ts';
export { createReader, type ReaderOptions, type StreamReader } from './reader.ts';
export {
  type ModelRequest,
  requestParameters,
  type ToolDefinition,
} from './request.ts';
export {
  type Script,
  type ScriptedProvider,
  type ScriptedProviderOptions,
  startScriptedProvider,
} from './scripted-provider.ts';
export type { ScriptedRequest } from './scripted-request.ts';
export { parseScript, type ScriptedReply } from './scripted-script.ts';
export { replyOf, type TurnOptions } from './turn-reply.ts';
export { estimateTokens, tokenRatio, type Usage } from './usage.ts';
export { createWrittenMessages, type WrittenMessages } from './written-messages.ts';

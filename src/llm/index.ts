export type {
  BadArguments,
  Block,
  BrokenReply,
  Message,
  ModelReply,
  Protocol,
  Stop,
  TextBlock,
  ThinkingBlock,
  ToolCallBlock,
  ToolResultBlock,
} from './message.ts';
export { type ProviderRequest, type ToolDefinition } from './message.ts';
export { type ResolvedModel, resolveModel } from './models.ts';
export { formatMoney, parseMoney } from './prices/money.ts';
export {
  costOf,
  createPrices,
  type Price,
  type PriceLayer,
  type PricePorts,
  type Prices,
  uncountedPrices,
  worstCost,
} from './prices/prices.ts';
export { providerFault } from './provider-fault.ts';
export { readReply, replyOf, type TurnOptions } from './read-reply.ts';
export { createReader, type ReaderOptions, type StreamReader } from './reader.ts';
export {
  createRequestWriter,
  createWrittenMessages,
  type RequestWriter,
  requestParameters,
  type WrittenMessages,
} from './request.ts';
export {
  type ProviderScript,
  type ScriptedProvider,
  type ScriptedProviderOptions,
  startScriptedProvider,
} from './scripted/provider.ts';
export type { ScriptedRequest } from './scripted/request.ts';
export { parseScript, type ScriptedReply } from './scripted/script.ts';
export { estimateTokens, tokenRatio, type Usage } from './usage.ts';

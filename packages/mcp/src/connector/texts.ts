// Prepares text of a server for people and models. Invisible characters are removed and reported.
// Instructions to a model are reported too.
import { withoutHidden } from '@kernmantle/core/base';

/** Returns the text without invisible characters, at most `max` characters long. */
export function shownText(text: string, max: number): string {
  const visible = withoutHidden(text);
  return visible.length > max ? `${visible.slice(0, max)} …` : visible;
}

/** Patterns of instructions. A match is only a hint for a person: no pattern finds every instruction. */
const SPOKEN_TO_MODELS: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|instructions?|rules?)\b/is,
  /\b(?:system prompt|developer message|jailbreak)\b/i,
  /<\/?(?:important|system|instructions?|secret|assistant|user)\b[^>]*>/i,
  /\b(?:do not|don't|never)\b.{0,30}\b(?:tell|mention|reveal|inform|show)\b.{0,30}\buser\b/is,
  /\b(?:before|after|instead of|whenever)\b.{0,40}\b(?:using|calling|use|call)\b.{0,40}\btools?\b/is,
  /\byou (?:must|should|have to|are required to)\b.{0,80}\b(?:read|send|include|pass|call|upload)\b/is,
  /(?:~\/|\/)\.(?:ssh|aws|env|config|netrc)\b|\bid_rsa\b/i,
];

export const speaksToModels = (text: string): boolean =>
  SPOKEN_TO_MODELS.some((pattern) => pattern.test(withoutHidden(text)));

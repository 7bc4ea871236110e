// Places the boxes of a graph in layers, top down: a node is below all its inputs. Nodes name
// earlier ones in `from`, so one pass gives the layers. Four barycentre sweeps order each layer. A
// layer that is too wide is broken into several rows. A reference to itself, to a later node or to
// a missing one is bad data and gets no edge.

interface LayerNode {
  readonly id: number;
  readonly from: readonly number[];
  readonly width: number;
}

interface PlacedNode {
  readonly id: number;
  readonly layer: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

interface PlacedEdge {
  readonly from: number;
  readonly to: number;
  /** A cubic from the foot of one box to the head of another. */
  readonly path: string;
  readonly y1: number;
  readonly y2: number;
}

export interface LayeredGraph {
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly PlacedEdge[];
  readonly width: number;
  readonly height: number;
}

interface LayerSizes {
  /** Rows are not wider than this, unless one box alone is. */
  readonly maxWidth: number;
  readonly nodeHeight: number;
  readonly gapX: number;
  readonly gapY: number;
}

const SWEEPS = 4;

interface GraphNode {
  readonly id: number;
  readonly width: number;
  readonly above: GraphNode[];
  readonly below: GraphNode[];
  layer: number;
  /** Position in the layer, from 0 to 1. */
  at: number;
  x: number;
  y: number;
}

/**
 * INVARIANT: every edge always points downwards. Edges use only earlier ids, each once, so no data
 * can create a loop.
 */
function spotsOf(nodes: readonly LayerNode[]): GraphNode[] {
  const byId = new Map<number, GraphNode>();
  const order = nodes.filter(({ id }) => Number.isFinite(id)).sort((a, b) => a.id - b.id);
  for (const { id, from, width } of order) {
    if (byId.has(id)) continue;
    const inputs = [...new Set(from)].filter((earlier) => earlier < id);
    const above = inputs.flatMap((earlier) => byId.get(earlier) ?? []);
    const layer = above.reduce((deepest, spot) => Math.max(deepest, spot.layer + 1), 0);
    const size = Number.isFinite(width) ? Math.max(1, width) : 1;
    const spot: GraphNode = { id, width: size, above, below: [], layer, at: 0, x: 0, y: 0 };
    for (const other of above) other.below.push(spot);
    byId.set(id, spot);
  }
  const spots = [...byId.values()];
  // A node without inputs moves down to the layer just above its first user.
  for (const spot of spots.toReversed()) {
    if (spot.above.length > 0 || spot.below.length === 0) continue;
    spot.layer = spot.below.reduce((least, { layer }) => Math.min(least, layer - 1), Infinity);
  }
  return spots;
}

function layersOf(spots: readonly GraphNode[]): GraphNode[][] {
  const layers: GraphNode[][] = [];
  for (const spot of spots) {
    const layer = layers[spot.layer] ?? [];
    layer.push(spot);
    layers[spot.layer] = layer;
  }
  return layers.filter(Boolean);
}

const spread = (layer: readonly GraphNode[]): void =>
  layer.forEach((spot, index) => {
    spot.at = (index + 0.5) / layer.length;
  });

const middle = (spots: readonly GraphNode[], fallback: number): number =>
  spots.length === 0 ? fallback : spots.reduce((sum, { at }) => sum + at, 0) / spots.length;

/** Moves each node to the middle of its neighbours: a sweep down uses those above, a sweep up those below. */
function sweep(layers: readonly GraphNode[][]): void {
  layers.forEach(spread);
  for (let round = 0; round < SWEEPS; round += 1) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : layers.toReversed()) {
      const keyed = layer.map((spot) => ({
        spot,
        key: middle(isDown ? spot.above : spot.below, spot.at),
      }));
      keyed.sort((a, b) => a.key - b.key || a.spot.at - b.spot.at);
      keyed.forEach(({ spot }, index) => {
        layer[index] = spot;
      });
      spread(layer);
    }
  }
}

/** Splits a layer into rows of at most `maxWidth`. All rows get about the same width. */
function rowsOf(layer: readonly GraphNode[], { maxWidth, gapX }: LayerSizes): GraphNode[][] {
  const total = layer.reduce((sum, { width }) => sum + width + gapX, -gapX);
  const fair = total / Math.max(1, Math.ceil(total / maxWidth));
  const rows: GraphNode[][] = [];
  let row: GraphNode[] = [];
  let used = 0;
  for (const spot of layer) {
    if (row.length > 0 && (used >= fair || used + gapX + spot.width > maxWidth)) {
      rows.push(row);
      row = [];
      used = 0;
    }
    used += (row.length > 0 ? gapX : 0) + spot.width;
    row.push(spot);
  }
  rows.push(row);
  return rows;
}

/** Places boxes as close to the middle of their inputs as their neighbours allow. */
function placeRow(row: readonly GraphNode[], width: number, gapX: number): void {
  const total = row.reduce((sum, spot) => sum + spot.width + gapX, -gapX);
  const slack = Math.max(0, width - total) / 2;
  let even = slack;
  for (const spot of row) {
    const { above } = spot;
    const ideal =
      above.length === 0
        ? even
        : above.reduce((sum, other) => sum + other.x + other.width / 2, 0) / above.length -
          spot.width / 2;
    spot.x = ideal;
    even += spot.width + gapX;
  }
  let left = 0;
  for (const spot of row) {
    spot.x = Math.max(spot.x, left);
    left = spot.x + spot.width + gapX;
  }
  let right = Math.max(width, total);
  for (const spot of row.toReversed()) {
    spot.x = Math.min(spot.x, right - spot.width);
    right = spot.x - gapX;
  }
}

const tenth = (value: number): number => Math.round(value * 10) / 10;

/** Positions where edges meet a box: side by side, in the order of their other ends. */
function portsOf(spot: GraphNode, others: readonly GraphNode[]): Map<GraphNode, number> {
  const sorted = others.toSorted((a, b) => a.x - b.x);
  const inner = Math.max(0, Math.min(spot.width - 16, others.length * 18));
  const first = spot.x + spot.width / 2 - inner / 2;
  const step = inner / (sorted.length + 1);
  return new Map(sorted.map((other, index) => [other, tenth(first + (index + 1) * step)]));
}

function edgesOf(spots: readonly GraphNode[], height: number): PlacedEdge[] {
  const leaves = new Map(spots.map((spot) => [spot, portsOf(spot, spot.below)]));
  return spots.flatMap((lower) => {
    const enters = portsOf(lower, lower.above);
    return lower.above.map((upper) => {
      const [x1, x2] = [leaves.get(upper)?.get(lower), enters.get(upper)];
      const [y1, y2] = [upper.y + height, lower.y];
      const bend = (y2 - y1) * 0.55;
      const path = `M${x1} ${y1}C${x1} ${tenth(y1 + bend)} ${x2} ${tenth(y2 - bend)} ${x2} ${y2}`;
      return { from: upper.id, to: lower.id, path, y1, y2 };
    });
  });
}

/** Computes all positions. Never throws; a thousand nodes take a few milliseconds. */
export function layerGraph(nodes: readonly LayerNode[], sizes: LayerSizes): LayeredGraph {
  const spots = spotsOf(nodes);
  const layers = layersOf(spots);
  sweep(layers);
  const { nodeHeight, gapX, gapY, maxWidth } = sizes;
  const rows = layers.flatMap((layer) => rowsOf(layer, sizes));
  const widest = rows.map((row) => row.reduce((sum, { width }) => sum + width + gapX, -gapX));
  const width = widest.reduce((most, one) => Math.max(most, one), maxWidth);
  rows.forEach((row, index) => {
    for (const spot of row) spot.y = index * (nodeHeight + gapY);
    placeRow(row, width, gapX);
  });
  const placed = spots.map(({ id, layer, x, y, width: size }) => ({
    id,
    layer,
    x: tenth(x),
    y,
    width: size,
  }));
  return {
    nodes: placed,
    edges: edgesOf(spots, nodeHeight),
    width,
    height: rows.length === 0 ? 0 : rows.length * (nodeHeight + gapY) - gapY,
  };
}

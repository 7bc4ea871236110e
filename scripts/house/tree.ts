// The source tree: what each file imports and exports (read as text by `walls.mjs`), and what only the
// compiler knows (its JavaScript interface is still called unstable, so nothing else imports it).
import { fileURLToPath } from 'node:url';
import { type Node, type SourceFile as Syntax, SyntaxKind } from 'typescript/unstable/ast';
import {
  isArrowFunction,
  isAsExpression,
  isConstructorDeclaration,
  isFunctionDeclaration,
  isFunctionExpression,
  isGetAccessorDeclaration,
  isIdentifier,
  isInterfaceDeclaration,
  isIntersectionTypeNode,
  isMethodDeclaration,
  isParameterDeclaration,
  isSetAccessorDeclaration,
  isStringLiteral,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  isTypeReferenceNode,
} from 'typescript/unstable/ast/is';
import {
  API,
  type Checker,
  type Project,
  SignatureKind,
  type Type,
} from 'typescript/unstable/sync';
import { readSources, type Source, type SourceExport, type Sources } from './walls.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url)).replaceAll('\\', '/');
const CONFIG = `${root}scripts/house/tsconfig.json`;

export interface Import {
  /** A path as `SourceFile.path` has it, or the name of a package. */
  readonly target: string;
  readonly isLocal: boolean;
  /** True if nothing is left of the import when the program runs. */
  readonly isType: boolean;
  /** The local name and the name in the other file. `*` stands for all names. */
  readonly names: readonly { local: string; name: string; isType?: boolean }[];
  readonly line: number;
}

interface Span {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
}

export interface SourceFile {
  /** The path below `packages`, without `src`. */
  readonly path: string;
  readonly package: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  readonly exports: readonly SourceExport[];
}

export interface SyntaxFacts {
  readonly path: string;
  readonly functions: readonly Span[];
  /** Lines with a cast other than `as const`. */
  readonly casts: readonly number[];
  /** Lines with `any`, a non-null `!` or a promised assignment `!:`. */
  readonly unchecked: readonly number[];
  /** Names of types that are the type of a parameter somewhere in this file. */
  readonly parameterTypes: ReadonlySet<string>;
}

export interface Member {
  readonly name: string;
  /** Files that mention the member. */
  readonly readers: readonly string[];
}

export interface Tree {
  readonly files: readonly SourceFile[];
  readonly sources: Sources;
  readonly byPath: ReadonlyMap<string, SourceFile>;
  /** Reads the syntax of every file. */
  facts(): readonly SyntaxFacts[];
  /**
   * Members of an object type, inherited ones included; undefined for data, that is when neither a
   * member nor a member of one is a function.
   */
  objectMembers(path: string, type: string): number | undefined;
  /** The members that the type itself declares, each with the files that mention it. */
  members(path: string, type: string): readonly Member[];
  close(): void;
}

/** A file by its path below `packages`, without `src`: `core/flow/frame.ts`. */
const shortPath = (path: string): string => path.replace(/^packages\//, '').replace('/src/', '/');
const isSource = (file: string): boolean =>
  file.startsWith(`${root}packages/`) && !file.endsWith('.d.ts');
const sourcePath = (file: string): string => shortPath(file.slice(root.length));

function sourceFile({ path, package: own, text, imports, exports }: Source): SourceFile {
  const dependency = (specifier: string): string =>
    specifier
      .split('/')
      .slice(0, specifier.startsWith('@') ? 2 : 1)
      .join('/');
  return {
    path: shortPath(path),
    package: own,
    lines: text.split('\n').length - 1,
    imports: imports.map(({ specifier, target, isType, names, line }) => ({
      target: target === undefined ? dependency(specifier) : shortPath(target),
      isLocal: target !== undefined,
      isType,
      names,
      line,
    })),
    exports: exports.map((entry) =>
      entry.target === undefined ? entry : { ...entry, target: shortPath(entry.target) },
    ),
  };
}

const textOf = (node: Node | undefined): string =>
  node && (isIdentifier(node) || isStringLiteral(node)) ? node.text : '';

function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

const lineOf = (syntax: Syntax, node: Node): number =>
  syntax.getLineAndCharacterOfPosition(node.getStart(syntax)).line + 1;

const isFunction = (node: Node): boolean =>
  isFunctionDeclaration(node) ||
  isFunctionExpression(node) ||
  isArrowFunction(node) ||
  isMethodDeclaration(node) ||
  isConstructorDeclaration(node) ||
  isGetAccessorDeclaration(node) ||
  isSetAccessorDeclaration(node);

/** Its own name, or that of what it is assigned to. */
function functionName(node: Node): string {
  const own = 'name' in node ? textOf(node.name as Node | undefined) : '';
  if (own !== '') return own;
  const holder = node.parent;
  const given = 'name' in holder ? textOf(holder.name as Node | undefined) : '';
  return given === '' ? '(unnamed)' : given;
}

function isUnchecked(node: Node): boolean {
  if (node.kind === SyntaxKind.AnyKeyword || node.kind === SyntaxKind.NonNullExpression)
    return true;
  const holder = node.parent;
  return (
    node.kind === SyntaxKind.ExclamationToken &&
    (holder.kind === SyntaxKind.VariableDeclaration ||
      holder.kind === SyntaxKind.PropertyDeclaration)
  );
}

const isConstAssertion = (type: Node): boolean =>
  isTypeReferenceNode(type) && textOf(type.typeName) === 'const';

function readFacts({ path }: SourceFile, syntax: Syntax): SyntaxFacts {
  const functions: Span[] = [];
  const casts: number[] = [];
  const unchecked: number[] = [];
  const parameterTypes = new Set<string>();
  walk(syntax, (node) => {
    if (isFunction(node)) {
      const line = lineOf(syntax, node);
      const last = syntax.getLineAndCharacterOfPosition(node.end).line + 1;
      functions.push({ name: functionName(node), line, lines: last - line + 1 });
    }
    if (isAsExpression(node) ? !isConstAssertion(node.type) : isOldCast(node)) {
      casts.push(lineOf(syntax, node));
    }
    if (isUnchecked(node)) unchecked.push(lineOf(syntax, node));
    if (isParameterDeclaration(node) && node.type) {
      const type = node.type;
      const inner = isTypeReferenceNode(type) && textOf(type.typeName) === 'Readonly';
      const named = inner ? type.typeArguments?.[0] : type;
      if (named && isTypeReferenceNode(named)) parameterTypes.add(textOf(named.typeName));
    }
  });
  return { path, functions, casts, unchecked, parameterTypes };
}

const isOldCast = (node: Node): boolean => node.kind === SyntaxKind.TypeAssertionExpression;

/** Starts the compiler with the first question that only the compiler can answer. */
function lazyProject() {
  let api: API | undefined;
  let project: Project | undefined;
  return {
    open(): Project {
      api ??= new API({ cwd: root });
      project ??= api.updateSnapshot({ openProjects: [CONFIG] }).getProject(CONFIG);
      if (!project) throw new Error(`no project at \`${CONFIG}\``);
      return project;
    },
    close: () => api?.close(),
  };
}

export function readTree(): Tree {
  const compiler = lazyProject();
  const sources = readSources(root);
  const files = sources.files
    .filter(({ path }) => !/(?:^|[/-])fixture\.ts$/.test(path))
    .map((source) => sourceFile(source));
  const byPath = new Map(files.map((file) => [file.path, file]));
  const syntaxOf = (path: string): Syntax | undefined =>
    compiler.open().program.getSourceFile(`${root}packages/${path.replace('/', '/src/')}`);
  const declarationOf = (path: string, type: string): Node | undefined =>
    syntaxOf(path)?.statements.find(
      (node) =>
        (isInterfaceDeclaration(node) || isTypeAliasDeclaration(node)) && node.name.text === type,
    );
  return {
    files,
    sources,
    byPath,
    facts: () =>
      files.flatMap((file) => {
        const syntax = syntaxOf(file.path);
        return syntax ? [readFacts(file, syntax)] : [];
      }),
    objectMembers(path, type) {
      const declaration = declarationOf(path, type);
      return declaration && countMembers(compiler.open(), declaration);
    },
    members(path, type) {
      const declaration = declarationOf(path, type);
      return declaration ? membersOf(compiler.open(), declaration) : [];
    },
    close: compiler.close,
  };
}

function countMembers({ checker }: Project, declaration: Node): number | undefined {
  const isObject =
    isInterfaceDeclaration(declaration) ||
    (isTypeAliasDeclaration(declaration) &&
      (isTypeLiteralNode(declaration.type) || isIntersectionTypeNode(declaration.type)));
  const symbol = isObject ? checker.getSymbolAtLocation(declaration.name) : undefined;
  const type = symbol && checker.getDeclaredTypeOfSymbol(symbol);
  if (!type) return undefined;
  const members = checker.getPropertiesOfType(type);
  return doesSomething(checker, type, 1) ? members.length : undefined;
}

/** Is a member of the type a function, or has one a function below itself? */
function doesSomething(checker: Checker, type: Type, below: number): boolean {
  const types = checker
    .getTypeOfSymbol(checker.getPropertiesOfType(type))
    .flatMap((member) => (member && checker.getNonNullableType(member)) ?? []);
  if (types.some((member) => checker.getSignaturesOfType(member, SignatureKind.Call).length > 0)) {
    return true;
  }
  // Lists, texts and numbers have methods too: only objects that are declared in packages count.
  const isOurs = (member: Type): boolean =>
    member.getSymbol()?.declarations.some(({ path }) => isSource(path)) ?? false;
  return (
    below > 0 && types.some((member) => isOurs(member) && doesSomething(checker, member, below - 1))
  );
}

/** Fields of the type and of the objects written out inside it. */
function membersOf({ checker }: Project, declaration: Node): Member[] {
  const found: Member[] = [];
  walk(declaration, (node) => {
    const isMember =
      node.kind === SyntaxKind.PropertySignature || node.kind === SyntaxKind.MethodSignature;
    if (!isMember || !('name' in node)) return;
    const name = node.name as Node;
    const entries = checker.getReferencedSymbolsForNode(name, name.getStart());
    const readers = entries.flatMap(({ references }) => references.map(({ path }) => path));
    found.push({
      name: name.getText(),
      readers: [...new Set(readers.filter(isSource).map(sourcePath))],
    });
  });
  return found;
}

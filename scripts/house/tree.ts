// Reads `src/` as a tree of syntax: what each file imports, exports and declares. The compiler that is
// here anyway reads it (its JavaScript interface is still called unstable, so nothing else imports it):
// a second parser would be one more dependency, and only the compiler knows who reads which field.
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Node, type SourceFile as Syntax, SyntaxKind } from 'typescript/unstable/ast';
import {
  isArrowFunction,
  isAsExpression,
  isCallExpression,
  isClassDeclaration,
  isConstructorDeclaration,
  isExportDeclaration,
  isFunctionDeclaration,
  isFunctionExpression,
  isGetAccessorDeclaration,
  isIdentifier,
  isImportDeclaration,
  isImportTypeNode,
  isInterfaceDeclaration,
  isIntersectionTypeNode,
  isLiteralTypeNode,
  isMethodDeclaration,
  isNamedExports,
  isNamedImports,
  isObjectBindingPattern,
  isParameterDeclaration,
  isPropertyAccessExpression,
  isSetAccessorDeclaration,
  isStringLiteral,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  isTypeReferenceNode,
  isVariableDeclaration,
  isVariableStatement,
} from 'typescript/unstable/ast/is';
import {
  API,
  type Checker,
  type Project,
  SignatureKind,
  type Type,
} from 'typescript/unstable/sync';

const root = fileURLToPath(new URL('../..', import.meta.url)).replaceAll('\\', '/');
const CONFIG = `${root}scripts/house/tsconfig.json`;

export interface Import {
  /** A path below `src`, or the name of a package. */
  readonly target: string;
  readonly isLocal: boolean;
  /** Erased before it runs. */
  readonly isType: boolean;
  /** Local name and the name it has there; `*` stands for all of them. */
  readonly names: readonly { local: string; name: string }[];
  readonly line: number;
}

export interface Export {
  readonly name: string;
  readonly line: number;
  /** `class` is both a type and a value. */
  readonly kind: 'type' | 'class' | 'value' | 'passed on';
  /** Passed on from this file, under this name there. */
  readonly from?: { readonly target: string; readonly name: string };
}

export interface Span {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
}

export interface SourceFile {
  /** Below `src`. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  readonly exports: readonly Export[];
  readonly functions: readonly Span[];
  /** Lines with a cast, `as const` aside. */
  readonly casts: readonly number[];
  /** Lines with `any`, a non-null `!` or a promised assignment `!:`. */
  readonly unchecked: readonly number[];
  /** Names of types that are the type of a parameter somewhere in this file. */
  readonly parameterTypes: ReadonlySet<string>;
}

export interface Member {
  readonly name: string;
  /** Files below `src` that mention it, with the lines. */
  readonly readers: readonly string[];
}

export interface Tree {
  readonly files: readonly SourceFile[];
  file(path: string): SourceFile | undefined;
  /**
   * Members of an object type, inherited ones included; undefined for data, that is when neither a
   * member nor a member of one is a function.
   */
  objectMembers(path: string, type: string): number | undefined;
  /** The members that the type itself declares, each with the files that mention it. */
  members(path: string, type: string): readonly Member[];
  close(): void;
}

const SOURCE = `${root}src/`;
const isSource = (file: string): boolean => file.startsWith(SOURCE) && !file.endsWith('.d.ts');
const sourcePath = (file: string): string => file.slice(SOURCE.length);

/** A relative module as a path below `src`; otherwise the package without the path inside it. */
function targetOf(path: string, specifier: string): { target: string; isLocal: boolean } {
  if (specifier.startsWith('.')) {
    return { target: posix.join(posix.dirname(path), specifier), isLocal: true };
  }
  const words = specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1);
  return { target: words.join('/'), isLocal: false };
}

const textOf = (node: Node | undefined): string =>
  node && (isIdentifier(node) || isStringLiteral(node)) ? node.text : '';

function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

const lineOf = (syntax: Syntax, node: Node): number =>
  syntax.getLineAndCharacterOfPosition(node.getStart(syntax)).line + 1;

function importsOf(path: string, syntax: Syntax): Import[] {
  const found: Import[] = [];
  const add = (from: Node, specifier: Node, isType: boolean, names: Import['names']): void => {
    if (!isStringLiteral(specifier)) return;
    found.push({
      ...targetOf(path, specifier.text),
      isType,
      names,
      line: lineOf(syntax, from),
    });
  };
  walk(syntax, (node) => {
    if (isImportDeclaration(node)) {
      const clause = node.importClause;
      const bindings = clause?.namedBindings;
      const isType = clause?.phaseModifier === SyntaxKind.TypeKeyword;
      if (!bindings || !isNamedImports(bindings)) {
        const local = textOf(clause?.name ?? bindings?.name);
        const name = clause?.name ? 'default' : '*';
        add(node, node.moduleSpecifier, isType, [{ local, name }]);
        return;
      }
      const names = bindings.elements.map((element) => ({
        local: element.name.text,
        name: textOf(element.propertyName) || element.name.text,
      }));
      const allTypes = isType || bindings.elements.every((element) => element.isTypeOnly);
      add(node, node.moduleSpecifier, allTypes, names);
    } else if (isExportDeclaration(node) && node.moduleSpecifier) {
      const clause = node.exportClause;
      const elements = clause && isNamedExports(clause) ? clause.elements : undefined;
      const isType = node.isTypeOnly || (elements?.every((element) => element.isTypeOnly) ?? false);
      // Whoever passes a name on does not use it.
      add(node, node.moduleSpecifier, isType, elements ? [] : [{ local: '', name: '*' }]);
    } else if (isImportTypeNode(node) && isLiteralTypeNode(node.argument)) {
      const name = textOf(node.qualifier) || '*';
      add(node, node.argument.literal, true, [{ local: '', name }]);
    } else if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier) add(node, specifier, false, namesTaken(node));
    }
  });
  return found;
}

/** What is taken from `await import(…)`: the names of a pattern, one property, or everything. */
function namesTaken(call: Node): Import['names'] {
  let node = call.parent;
  while (
    node.kind === SyntaxKind.AwaitExpression ||
    node.kind === SyntaxKind.ParenthesizedExpression
  )
    node = node.parent;
  if (isPropertyAccessExpression(node)) {
    const name = node.name.text;
    const [callback] =
      isCallExpression(node.parent) && name === 'then' ? node.parent.arguments : [];
    if (callback && isArrowFunction(callback)) return namesBound(callback.parameters[0]?.name);
    return [{ local: '', name }];
  }
  return isVariableDeclaration(node) ? namesBound(node.name) : [{ local: '', name: '*' }];
}

function namesBound(pattern: Node | undefined): Import['names'] {
  if (!pattern || !isObjectBindingPattern(pattern)) return [{ local: '', name: '*' }];
  return pattern.elements.map((element) => ({
    local: textOf(element.name),
    name: textOf(element.propertyName) || textOf(element.name),
  }));
}

function exportsOf(path: string, syntax: Syntax, imports: readonly Import[]): Export[] {
  const isExported = (node: { modifiers?: readonly Node[] | undefined }): boolean =>
    node.modifiers?.some(({ kind }) => kind === SyntaxKind.ExportKeyword) ?? false;
  const importOf = (local: string): Export['from'] => {
    for (const { target, isLocal, names } of imports) {
      const named = isLocal ? names.find((entry) => entry.local === local) : undefined;
      if (named) return { target, name: named.name };
    }
    return undefined;
  };
  return syntax.statements.flatMap((node): Export[] => {
    const line = lineOf(syntax, node);
    if (isExportDeclaration(node)) {
      const clause = node.exportClause;
      if (!clause || !isNamedExports(clause)) return [];
      const specifier = node.moduleSpecifier;
      const module = specifier && isStringLiteral(specifier) ? specifier.text : undefined;
      return clause.elements.map((element) => {
        const inner = textOf(element.propertyName) || textOf(element.name);
        const from =
          module === undefined
            ? importOf(inner)
            : { target: targetOf(path, module).target, name: inner };
        const kind = from ? 'passed on' : 'value';
        return { name: textOf(element.name), line, kind, ...(from ? { from } : {}) };
      });
    }
    if (isInterfaceDeclaration(node) || isTypeAliasDeclaration(node)) {
      return isExported(node) ? [{ name: node.name.text, line, kind: 'type' }] : [];
    }
    if (isClassDeclaration(node)) {
      return isExported(node) ? [{ name: textOf(node.name), line, kind: 'class' }] : [];
    }
    if (isFunctionDeclaration(node)) {
      return isExported(node) ? [{ name: textOf(node.name), line, kind: 'value' }] : [];
    }
    if (!isVariableStatement(node) || !isExported(node)) return [];
    return node.declarationList.declarations.flatMap(({ name }): Export[] =>
      isIdentifier(name)
        ? [{ name: name.text, line, kind: 'value' }]
        : namesBound(name).map(({ local }) => ({ name: local, line, kind: 'value' })),
    );
  });
}

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

function readFile(path: string, syntax: Syntax): SourceFile {
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
  const imports = importsOf(path, syntax);
  const lines = syntax.text.split('\n').length - (syntax.text.endsWith('\n') ? 1 : 0);
  const exports = exportsOf(path, syntax, imports);
  return { path, lines, imports, exports, functions, casts, unchecked, parameterTypes };
}

const isOldCast = (node: Node): boolean => node.kind === SyntaxKind.TypeAssertionExpression;

export function readTree(): Tree {
  const api = new API({ cwd: root });
  const project = api.updateSnapshot({ openProjects: [CONFIG] }).getProject(CONFIG);
  if (!project) throw new Error(`no project at \`${CONFIG}\``);
  const { program } = project;
  const names = program.getSourceFileNames().filter(isSource);
  const syntaxOf = (path: string): Syntax | undefined => program.getSourceFile(`${SOURCE}${path}`);
  const files = names.map(sourcePath).flatMap((path) => {
    const syntax = syntaxOf(path);
    return syntax ? [readFile(path, syntax)] : [];
  });
  const byPath = new Map(files.map((file) => [file.path, file]));
  const declarationOf = (path: string, type: string): Node | undefined =>
    syntaxOf(path)?.statements.find(
      (node) =>
        (isInterfaceDeclaration(node) || isTypeAliasDeclaration(node)) && node.name.text === type,
    );
  return {
    files,
    file: (path) => byPath.get(path),
    objectMembers(path, type) {
      const declaration = declarationOf(path, type);
      return declaration && countMembers(project, declaration);
    },
    members(path, type) {
      const declaration = declarationOf(path, type);
      return declaration ? membersOf(project, declaration) : [];
    },
    close: () => api.close(),
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
  // Lists, texts and numbers have methods too: only objects that are declared in `src` count.
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

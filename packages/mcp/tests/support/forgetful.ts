// A program that asks a server and never closes its pool: `node forgetful.ts PROJECT MARK`.
import { join } from 'node:path';
import type { TestProject } from '@kernmantle/test-support/processes';
import { callWith, nodeServer, poolOf } from './pool.ts';

const [base = '', mark = ''] = process.argv.slice(2);
const project = { base, root: join(base, 'project'), home: join(base, 'home') } as TestProject;
const { pool } = poolOf(project);
const endpoint = nodeServer('rogue.mjs', [mark]);
const answer = await pool.call(endpoint, { name: 'who', arguments: {} }, callWith());
console.log(answer.ok ? 'asked' : JSON.stringify(answer));

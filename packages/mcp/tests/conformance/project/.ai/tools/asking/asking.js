// Tools that need something from the client before they can answer. Each is run again with what was
// said (`input_responses`) and with the state it left behind (`input_state`); nothing stays in between.

const answer = (words) => ({ content: [{ type: 'text', text: words }] });
const ask = (requests, state) => ({
  input_required: { requests, ...(state === undefined ? {} : { state }) },
});

const fromPerson = (message, properties, required = Object.keys(properties)) => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties, required } },
});
const fromModel = (words, maxTokens = 100) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: words } }], maxTokens },
});
const clientRoots = { method: 'roots/list', params: {} };
const name = fromPerson('What is your name?', { name: { type: 'string' } });

export function sampling({ prompt, input_responses: said }) {
  if (!said?.reply) return ask({ reply: fromModel(prompt) });
  return answer(`LLM response: ${said.reply.content.text}`);
}

function form(message, properties, required) {
  return ({ input_responses: said }) => {
    if (!said?.form) return ask({ form: fromPerson(message, properties, required) });
    const { action, content } = said.form;
    return answer(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
  };
}

const asked = {
  username: { type: 'string', description: "User's response" },
  email: { type: 'string', description: "User's email address" },
};
export const person = ({ message, ...rest }) => form(message, asked)(rest);

export const defaults = form(
  'Please look over your profile',
  {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
  [],
);

const values = ['First', 'Second', 'Third'];
const titled = (kind) =>
  values.map((title, index) => ({ const: `value${index + 1}`, title: `${title} ${kind}` }));
const options = ['option1', 'option2', 'option3'];

export const choices = form(
  'Please choose',
  {
    untitledSingle: { type: 'string', enum: options },
    titledSingle: { type: 'string', oneOf: titled('Option') },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
    titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
  },
  [],
);

export function greeting({ input_responses: said }) {
  const given = said?.user_name?.content?.name;
  return given === undefined ? ask({ user_name: name }) : answer(`Hello, ${given}!`);
}

export function capital({ input_responses: said }) {
  const reply = said?.capital_question?.content;
  if (!reply) return ask({ capital_question: fromModel('What is the capital of France?') });
  return answer(reply.text);
}

export function roots({ input_responses: said }) {
  const listed = said?.client_roots?.roots;
  if (!listed) return ask({ client_roots: clientRoots });
  return answer(`Roots: ${listed.map(({ uri }) => uri).join(', ')}`);
}

export function confirmed({ input_responses: said, input_state: state }) {
  if (state?.asked !== 'confirm' || !said?.confirm) {
    const confirm = fromPerson('Please confirm', { ok: { type: 'boolean' } });
    return ask({ confirm }, { asked: 'confirm' });
  }
  return answer(said.confirm.action === 'accept' ? 'state-ok' : 'state-ok, but declined');
}

export function everything({ input_responses: said, input_state: state }) {
  if (state?.asked !== 'everything' || !said) {
    const greetingOf = fromModel('Generate a greeting', 50);
    const requests = { user_name: name, greeting: greetingOf, client_roots: clientRoots };
    return ask(requests, { asked: 'everything' });
  }
  const { user_name: who, greeting: words, client_roots: listed } = said;
  return answer(`${words?.content?.text} ${who?.content?.name}: ${listed?.roots?.length} roots`);
}

export function twoRounds({ input_responses: said, input_state: state }) {
  const step1 = fromPerson('Step 1: What is your name?', { name: { type: 'string' } });
  const step2 = fromPerson('Step 2: What is your favorite color?', { color: { type: 'string' } });
  if (state?.step === 2 && said?.step2) {
    return answer(`${state.name} likes ${said.step2.content?.color}`);
  }
  if (state?.step === 1 && said?.step1) {
    return ask({ step2 }, { step: 2, name: said.step1.content?.name });
  }
  return ask({ step1 }, { step: 1 });
}

/** The server leaves out what this client cannot answer. */
export function whoever({ input_responses: said }) {
  if (said) return answer(`Heard from ${Object.keys(said).join(' and ')}`);
  return ask({ user_name: name, capital_question: fromModel('What is the capital of France?') });
}

export function prompt({ input_responses: said }) {
  const context = said?.user_context?.content?.context;
  if (context === undefined) {
    const question = 'What context should the prompt use?';
    return ask({ user_context: fromPerson(question, { context: { type: 'string' } }) });
  }
  const text = `Bear this in mind: ${context}`;
  return { messages: [{ role: 'user', content: { type: 'text', text } }] };
}

// A call of the gRPC API in protobuf's JSON form.

export class Failure extends Error {
  constructor(message, fields) {
    super(message);
    this.fields = fields ?? [];
  }
}

const limit = 15_000;

export async function call(method, request) {
  let response;
  try {
    response = await fetch('call/retry.v1.' + method, {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(limit),
    });
  } catch (error) {
    throw new Failure(error.name === 'TimeoutError'
      ? 'Verdict has not answered for 15 seconds. Whether it did what was asked is not known: look before you repeat it.'
      : 'Verdict cannot be reached. If the connection ended on the way, look before you repeat it.');
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Failure(`The answer was not understood (status ${response.status}).`);
  }
  if (!response.ok) throw new Failure(answer.message || `Refused (status ${response.status}).`, answer.fields);
  return answer;
}

export const ledger = (method, request) => call('LedgerService/' + method, request);
export const admin = (method, request) => call('AdminService/' + method, request);
export const explain = facts => call('DecisionService/Explain', {facts});

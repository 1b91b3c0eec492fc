// A project of a Penstock server for tests, over its admin API: time, faults, and what happened.

import { randomUUID } from 'node:crypto';

const ADDRESS = process.env.PENSTOCK_ADDRESS ?? '127.0.0.1:8090';

export class Project {
  // A name that nobody else uses is a project of one's own.
  constructor() {
    this.name = `node-${randomUUID().slice(0, 12)}`;
    this.pace = {};  // patience_seconds, extension_seconds: how time is moved
  }

  async call(method, path, body, query = {}) {
    const asked = new URLSearchParams(query).toString();
    const response = await fetch(`http://${ADDRESS}/admin/v1${path}${asked ? `?${asked}` : ''}`, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = response.status === 204 ? null : await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${answer.error.message}`);
    return answer;
  }

  // ---------------------------------------------------------------- time

  #clock(how, body = {}) {
    return this.call('POST', `/projects/${this.name}/clock/${how}`, { ...body, ...this.pace });
  }

  freeze() { return this.#clock('freeze'); }
  automatic() { return this.#clock('automatic'); }
  advance(seconds) { return this.#clock('advance', { seconds }); }

  async now() {
    return new Date((await this.call('GET', `/projects/${this.name}/clock`)).now);
  }

  // ---------------------------------------------------------------- faults

  addFault(rule) { return this.call('POST', '/faults', { project: this.name, ...rule }); }
  fault(id) { return this.call('GET', `/faults/${id}`); }

  // ---------------------------------------------------------------- what happened

  // The texts of all messages that a topic keeps.
  async published(topic) {
    const page = await this.call('GET', `/topics/${topic}/messages`, undefined, { project: this.name, max: 1000 });
    return page.messages.map((message) => message.data);
  }

  // Every delivery of a message, given by its id, to a subscription.
  async deliveries(topic, subscription, id) {
    const page = await this.call('GET', `/topics/${topic}/stories`, undefined, { project: this.name, max: 1000 });
    const story = page.stories.find((each) => each.id === id);
    if (story === undefined || !story.complete) throw new Error(`Nobody knows what happened to ${id}`);
    const name = `projects/${this.name}/subscriptions/${subscription}`;
    return story.events.filter((each) => each.kind === 'delivered' && each.subscription === name);
  }

  // Until no message of a subscription waits, is leased or due.
  async settle(subscription, seconds = 30) {
    const query = { project: this.name, wait_seconds: seconds };
    const left = await this.call('GET', `/subscriptions/${subscription}/backlog`, undefined, query);
    if (left.messages.length === 0 && left.complete) return;
    const lines = left.messages.map((each) => `  ${each.message.data}: ${each.stage}, until ${each.until}`);
    throw new Error(`Not settled after ${seconds} seconds:\n${lines.join('\n')}`);
  }

  async end() {
    await this.call('DELETE', '/faults', undefined, { project: this.name });
    await this.call('DELETE', `/projects/${this.name}`);
  }
}

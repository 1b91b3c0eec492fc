// A project of a Penstock server for tests, over its admin API: its clock, faults and message histories.

import { randomUUID } from 'node:crypto';

const ADDRESS = process.env.PENSTOCK_ADDRESS ?? '127.0.0.1:8090';

export class Project {
  // A new name is a new project.
  constructor() {
    this.name = `node-${randomUUID().slice(0, 12)}`;
    this.pace = {};  // patience_seconds and extension_seconds of clock moves
  }

  async call(method, path, body, query = {}) {
    const parameters = new URLSearchParams(query).toString();
    const response = await fetch(`http://${ADDRESS}/admin/v1${path}${parameters ? `?${parameters}` : ''}`, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = response.status === 204 ? null : await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${answer.error.message}`);
    return answer;
  }

  // ---------------------------------------------------------------- clock

  #clock(action, body = {}) {
    return this.call('POST', `/projects/${this.name}/clock/${action}`, { ...body, ...this.pace });
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

  // ---------------------------------------------------------------- message histories

  // The data of all stored messages of a topic.
  async published(topic) {
    const page = await this.call('GET', `/topics/${topic}/messages`, undefined, { project: this.name, max: 1000 });
    return page.messages.map((message) => message.data);
  }

  // The deliveries of the message with this id to a subscription.
  async deliveries(topic, subscription, id) {
    const page = await this.call('GET', `/topics/${topic}/stories`, undefined, { project: this.name, max: 1000 });
    const story = page.stories.find((candidate) => candidate.id === id);
    if (story === undefined || !story.complete) throw new Error(`The history of message ${id} is not known`);
    const name = `projects/${this.name}/subscriptions/${subscription}`;
    return story.events.filter((event) => event.kind === 'delivered' && event.subscription === name);
  }

  // Wait until a subscription has no messages left.
  async settle(subscription, seconds = 30) {
    const query = { project: this.name, wait_seconds: seconds };
    const left = await this.call('GET', `/subscriptions/${subscription}/backlog`, undefined, query);
    if (left.messages.length === 0 && left.complete) return;
    const lines = left.messages.map((entry) => `  ${entry.message.data}: ${entry.stage}, until ${entry.until}`);
    throw new Error(`Not settled after ${seconds} seconds:\n${lines.join('\n')}`);
  }

  async end() {
    await this.call('DELETE', '/faults', undefined, { project: this.name });
    await this.call('DELETE', `/projects/${this.name}`);
  }
}

// Tests of a program that uses Node's Pub/Sub client, against a Penstock server. None sleeps.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';

import { PubSub, v1 } from '@google-cloud/pubsub';

import { Project } from './penstock.mjs';

const DAY = 86400;
const BACKOFF = { minimumBackoff: { seconds: 10 }, maximumBackoff: { seconds: 600 } };

let project, pubsub, topic;

beforeEach(async () => {
  project = new Project();
  await project.freeze();  // tests move the clock
  pubsub = new PubSub({ projectId: project.name });
  [topic] = await pubsub.createTopic('orders');
});

afterEach(async () => {
  await pubsub.close();
  await project.end();
});

// Pull the available messages without waiting. The high-level client has no such call.
async function pull(subscription, most = 10) {
  const client = new v1.SubscriberClient(await pubsub.getClientConfig());
  try {
    const [answer] = await client.pull({ subscription: subscription.name, maxMessages: most, returnImmediately: true });
    return answer.receivedMessages ?? [];
  } finally {
    await client.close();
  }
}

function listen(subscription, answer) {
  const seen = [];
  subscription.on('message', (message) => {
    seen.push(message);
    answer(message, seen.length);
    subscription.emit('answered', message);
  });
  subscription.on('error', (error) => { throw error; });
  return seen;
}

test('a message is redelivered after its ack deadline', async () => {
  const [billing] = await topic.createSubscription('billing', { ackDeadlineSeconds: 60 });
  await topic.publishMessage({ data: Buffer.from('one') });
  assert.equal((await pull(billing)).length, 1);
  await project.advance(59);
  assert.equal((await pull(billing)).length, 0);
  await project.advance(1);
  const [again] = await pull(billing);
  assert.equal(again.message.data.toString(), 'one');
});

test('the backoff grows from ten seconds to ten minutes', async () => {
  const [billing] = await topic.createSubscription('billing', { retryPolicy: BACKOFF });
  project.pace = { patience_seconds: 10 };
  const seen = listen(billing, (message) => message.nack());
  const first = once(billing, 'answered');
  await topic.publishMessage({ data: Buffer.from('bad') });
  await first;
  for (const seconds of [10, 20, 40, 80, 160, 320, 600, 600]) {
    const count = seen.length;
    const next = once(billing, 'answered');
    await project.advance(seconds - 1);
    assert.equal(seen.length, count, `too early: ${seconds}`);
    await project.advance(1);
    await next;
  }
  await billing.close();
});

test('a message is dead-lettered after five attempts', async () => {
  const [dead] = await pubsub.createTopic('dead');
  const deadLetterPolicy = { deadLetterTopic: dead.name, maxDeliveryAttempts: 5 };
  const [billing] = await topic.createSubscription('billing', { retryPolicy: BACKOFF, deadLetterPolicy });
  await project.automatic();
  const attempts = [];
  listen(billing, (message) => {
    attempts.push(message.deliveryAttempt);
    message.nack();
  });
  await topic.publishMessage({ data: Buffer.from('bad') });
  await project.settle('billing');
  assert.deepEqual(attempts, [1, 2, 3, 4, 5]);
  assert.deepEqual(await project.published('dead'), ['bad']);
  await billing.close();
});

test('an unacked message expires after seven days', async () => {
  const [billing] = await topic.createSubscription('billing', { messageRetentionDuration: { seconds: 7 * DAY } });
  await topic.publishMessage({ data: Buffer.from('old') });
  await project.advance(7 * DAY - 60);
  await topic.publishMessage({ data: Buffer.from('young') });
  await project.advance(61);
  const left = (await pull(billing)).map((each) => each.message.data.toString());
  assert.deepEqual(left, ['young']);
});

test('an acked message is not redelivered', async () => {
  const [billing] = await topic.createSubscription('billing', { ackDeadlineSeconds: 10 });
  listen(billing, (message) => message.ack());
  const id = await topic.publishMessage({ data: Buffer.from('one') });
  await project.settle('billing');
  await project.advance(DAY);
  assert.equal((await project.deliveries('orders', 'billing', id)).length, 1);
  await billing.close();
});

test('exactly once, a late ack is refused', async () => {
  const [billing] = await topic.createSubscription('billing', {
    ackDeadlineSeconds: 60,
    enableExactlyOnceDelivery: true,
  });
  project.pace = { patience_seconds: 0, extension_seconds: 0 };  // the worker hangs; do not wait for it
  const seen = listen(billing, () => {});
  const first = once(billing, 'answered');
  await topic.publishMessage({ data: Buffer.from('once') });
  await first;
  const second = once(billing, 'answered');
  await project.advance(61);
  await second;
  await assert.rejects(seen[0].ackWithResponse());
  assert.equal(await seen[1].ackWithResponse(), 'SUCCESS');
  await billing.close();
});

test('a publish is retried after a transient error and stored once', async () => {
  const { id } = await project.addFault({ effect: 'error', error: 'unavailable', verb: 'publish', nth: 1 });
  await topic.publishMessage({ data: Buffer.from('one') });
  assert.deepEqual(await project.published('orders'), ['one']);
  const fault = await project.fault(id);
  assert.deepEqual([fault.hits, fault.calls], [1, 2]);
});

test('a publish is retried after a lost answer and stored twice', async () => {
  await project.addFault({ effect: 'drop', verb: 'publish', nth: 1 });
  await topic.publishMessage({ data: Buffer.from('one') });
  assert.deepEqual(await project.published('orders'), ['one', 'one']);
});
